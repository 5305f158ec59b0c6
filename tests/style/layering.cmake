# SPDX-License-Identifier: Apache-2.0
# Dependencies point one way (kernels <- {models, mpi} <- src), vendor headers stay at home, and the preprocessor includes
# and nothing else: a build choice is a source file chosen by CMake. A source includes its own header first, which shows
# that this compiles alone.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS src kernels models mpi tests PATTERNS *.hpp *.cpp *.cu)

set(may_use_kernels "kernels")
set(may_use_models "kernels|models")
set(may_use_mpi "kernels|mpi")
set(may_use_src "kernels|models|mpi|src")
set(may_use_tests/kernels "kernels|tests")
set(may_use_tests/models "kernels|models|tests")
set(may_use_tests/mpi "kernels|mpi|tests")
set(may_use_tests/support "kernels|mpi|tests")
set(may_use_tests "kernels|models|mpi|src|tests")

# Vendor headers, and a view of tensors that assumes float32, and where they may be included. tests/bench measures vendors' own calls as the ceiling.
set(vendor_headers "mpi\\.h" "nccl\\.h" "dnnl[a-z_]*\\.hp?p?" "cudnn[a-z_0-9]*\\.h" "cuda[a-z_0-9]*\\.h" "cublas[A-Za-z_]*\\.h" "Kokkos_[A-Za-z]*\\.hpp"
                   "hdf5\\.h" "toml\\+\\+/[a-z.]*|toml\\.hpp" "jpeglib\\.h|jerror\\.h|turbojpeg\\.h" "png\\.h"
                   "float_values\\.hpp")
set(homes "mpi/|tests/mpi/|tests/support/" "mpi/nccl_|tests/mpi/fake_nccl/" "kernels/onednn/|tests/bench/" "kernels/cudnn/|tests/cuda/fake/"
          "kernels/cudnn/|kernels/device_loops/cuda_|mpi/nccl_|tests/mpi/fake_nccl/|tests/cuda/fake/" "kernels/cudnn/|tests/cuda/fake/"
          "kernels/|tests/kernels/|tests/bench/" "src/|tests/checkpoint/"
          "src/config/deck" "src/data/images/jpeg_|tests/data/images/" "src/data/images/png_|tests/data/images/" "kernels/|tests/")
set(hdf5_users)
set(faults "")
foreach(file IN LISTS files)
  string(REGEX MATCH "^(tests/(kernels|models|mpi|support)|[a-z]+)" folder "${file}")
  file(STRINGS "${root}/${file}" includes REGEX "^[ \t]*#[ \t]*include")
  string(REGEX REPLACE "[.](cpp|cu)$" ".hpp" own "${file}")
  if(NOT own STREQUAL file AND NOT folder MATCHES "^tests" AND EXISTS "${root}/${own}" AND
     NOT includes MATCHES "^[ \t]*#[ \t]*include \"${own}\"")
    string(APPEND faults "\n  ${file}: must include \"${own}\" first")
  endif()
  foreach(line IN LISTS includes)
    if(line MATCHES "include[ \t]*\"([^\"]*)\"")
      set(path "${CMAKE_MATCH_1}")
      string(REGEX REPLACE "/.*" "" used "${path}")
      if(NOT path MATCHES "^(kernels|models|mpi|src|tests)/" OR path MATCHES "\\.\\.")
        string(APPEND faults "\n  ${file}: \"${path}\" must be written from the root, as \"folder/file.hpp\"")
      elseif(NOT used MATCHES "^(${may_use_${folder}})$")
        string(APPEND faults "\n  ${file}: ${folder}/ may not use ${used}/")
      endif()
    endif()
    foreach(header home IN ZIP_LISTS vendor_headers homes)
      if(line MATCHES "[<\"](.*/)?(${header})[>\"]" AND NOT file MATCHES "^(${home})")
        string(APPEND faults "\n  ${file}: '${line}' belongs in ${home}")
      endif()
    endforeach()
    if(line MATCHES "hdf5\\.h" AND file MATCHES "^src/")
      list(APPEND hdf5_users "${file}")
    endif()
  endforeach()
  file(STRINGS "${root}/${file}" directives REGEX "^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|define|undef)")
  foreach(line IN LISTS directives)
    string(APPEND faults "\n  ${file}: preprocessor conditional or macro '${line}'")
  endforeach()
endforeach()
list(LENGTH hdf5_users count)
if(count GREATER 2)
  string(APPEND faults "\n  <hdf5.h> is included in more than two files of src/: ${hdf5_users}")
endif()
flotilla_verdict("layering" "${files}" "${faults}")

# SPDX-License-Identifier: Apache-2.0
# Dependencies point one way (kernels <- {models, mpi} <- src), vendor headers stay at home, and the preprocessor includes
# and nothing else: a build choice is a source file chosen by CMake. A source includes its own header first, which shows
# that this compiles alone.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS src kernels models mpi tests PATTERNS *.hpp *.cpp *.cu)

include("${CMAKE_CURRENT_LIST_DIR}/layers.cmake")

# The innermost row that a path belongs to, and in <result>_may_use what it may include.
function(layer_of path result)
  set(found "")
  set(may_use "")
  foreach(row IN LISTS layers)
    string(REGEX MATCH "^([^:]+):? ?(.*)" layer "${row}")
    set(layer "${CMAKE_MATCH_1}")
    set(uses "${CMAKE_MATCH_2}")
    string(LENGTH "${layer}" length)
    string(LENGTH "${found}" best)
    string(FIND "${path}" "${layer}/" place)
    if(place EQUAL 0 AND length GREATER best)
      set(found "${layer}")
      set(may_use "${uses}")
    endif()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
  set(${result}_may_use "${may_use}" PARENT_SCOPE)
endfunction()

# Vendor headers, and a view of tensors that assumes float32, and where they may be included. tests/bench measures vendors' own calls as the ceiling.
set(vendor_headers "mpi\\.h" "nccl\\.h" "dnnl[a-z_]*\\.hp?p?" "cudnn[a-z_0-9]*\\.h" "cuda[a-z_0-9]*\\.h" "cublas[A-Za-z_]*\\.h" "Kokkos_[A-Za-z]*\\.hpp"
                   "hdf5\\.h" "toml\\+\\+/[a-z.]*|toml\\.hpp" "jpeglib\\.h|jerror\\.h|turbojpeg\\.h" "png\\.h"
                   "b?float(16)?_values\\.hpp" "onnx_pb\\.h|zero_copy_stream[a-z_]*\\.h")
set(homes "mpi/|tests/mpi/|tests/support/" "mpi/all_reduce/nccl/nccl_|tests/mpi/fake_nccl/" "kernels/onednn/|tests/bench/" "kernels/cudnn/|tests/cuda/fake/"
          "kernels/cudnn/|kernels/graphs/|kernels/device_loops/cuda_|mpi/all_reduce/nccl/nccl_|tests/mpi/fake_nccl/|tests/cuda/fake/" "kernels/cudnn/|tests/cuda/fake/"
          "kernels/device_loops/|tests/kernels/" "src/|tests/checkpoint/"
          "src/config/deck" "src/data/images/jpeg_|tests/data/images/" "src/data/images/png_|tests/data/images/" "kernels/|tests/"
          "src/onnx/write_onnx\\.cpp|tests/onnx/")
set(hdf5_users)
set(faults "")
foreach(file IN LISTS files)
  layer_of("${file}" folder)
  file(STRINGS "${root}/${file}" includes REGEX "^[ \t]*#[ \t]*include")
  string(REGEX REPLACE "[.](cpp|cu)$" ".hpp" own "${file}")
  if(NOT own STREQUAL file AND NOT folder MATCHES "^tests" AND EXISTS "${root}/${own}" AND
     NOT includes MATCHES "^[ \t]*#[ \t]*include \"${own}\"")
    string(APPEND faults "\n  ${file}: must include \"${own}\" first")
  endif()
  foreach(line IN LISTS includes)
    if(line MATCHES "include[ \t]*\"([^\"]*)\"")
      set(path "${CMAKE_MATCH_1}")
      layer_of("${path}" used)
      string(REPLACE " " "|" may_use "${folder_may_use}")
      if(NOT path MATCHES "^(kernels|models|mpi|src|tests)/" OR path MATCHES "\\.\\.")
        string(APPEND faults "\n  ${file}: \"${path}\" must be written from the root, as \"folder/file.hpp\"")
      elseif(folder STREQUAL "")
        string(APPEND faults "\n  ${file}: belongs to no layer; tests/style/layers.cmake lists them")
      elseif(NOT used STREQUAL folder AND NOT "${used}/" MATCHES "^(${may_use})/")
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
# The picture is drawn from the table.
set(picture "${root}/docs/architecture.svg")
if(EXISTS "${picture}")
  file(SHA256 "${CMAKE_CURRENT_LIST_DIR}/layers.cmake" hash)
  file(STRINGS "${picture}" drawn_from REGEX "${hash}")
  if(NOT drawn_from)
    string(APPEND faults "\n  docs/architecture.svg: tests/style/layers.cmake has changed; run scripts/draw_architecture.sh")
  endif()
endif()
flotilla_verdict("layering" "${files}" "${faults}")

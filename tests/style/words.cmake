# SPDX-License-Identifier: Apache-2.0
# Words that do not belong: notes to oneself, paths of one machine, and output past src/observe/.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS src kernels models mpi tests cmake scripts jobscripts examples docs inputs .ci
               PATTERNS *.hpp *.cpp *.cu *.cmake CMakeLists.txt *.sh *.sbatch *.py *.md *.toml .ci/run)
flotilla_files(program FOLDERS src kernels models mpi PATTERNS *.hpp *.cpp *.cu)

# The brackets keep this file from finding itself.
set(notes "(^|[^A-Za-z])(TO[D]O|FIX[M]E|X[X]X)([^A-Za-z]|$)")
set(machine_paths "/wor[k]/|/tm[p]/wt")
set(output "std::cout|std::put[s]|[^a-z_]print[f]\\(|print[f]\\(stdout|using namespace")
set(faults "")
foreach(file IN LISTS files)
  file(STRINGS "${root}/${file}" lines REGEX "${notes}|${machine_paths}" ENCODING UTF-8)
  foreach(line IN LISTS lines)
    string(APPEND faults "\n  ${file}: an issue number or nothing, and no machine's paths: ${line}")
  endforeach()
endforeach()
foreach(file IN LISTS program)
  if(file MATCHES "^src/observe/")
    continue()
  endif()
  file(STRINGS "${root}/${file}" lines REGEX "${output}" ENCODING UTF-8)
  foreach(line IN LISTS lines)
    string(APPEND faults "\n  ${file}: output goes through src/observe/, and no namespace is emptied: ${line}")
  endforeach()
endforeach()
flotilla_verdict("words" "${files}" "${faults}")

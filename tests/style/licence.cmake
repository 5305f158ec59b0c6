# SPDX-License-Identifier: Apache-2.0
# One SPDX line leads every source, script and build file (second line where the first names the interpreter).
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files PATTERNS *.hpp *.cpp *.cu *.cmake CMakeLists.txt *.sh *.sbatch *.pbs *.lsf *.py .ci/run)

set(faults "")
foreach(file IN LISTS files)
  file(STRINGS "${root}/${file}" head LIMIT_COUNT 2)
  if(NOT head MATCHES "^(#![^;]*;)?(//|#) SPDX-License-Identifier: Apache-2\\.0(;|$)")
    string(APPEND faults "\n  ${file}: does not begin with 'SPDX-License-Identifier: Apache-2.0'")
  endif()
endforeach()
flotilla_verdict("licence lines" "${files}" "${faults}")

# SPDX-License-Identifier: Apache-2.0
# flotilla_import(<Name> <target> <header> <prefix>): what a find module has left to do once <Name>_INCLUDE_DIR and
# <Name>_LIBRARY were looked for: <Name>_VERSION from the header's <prefix>_MAJOR, _MINOR and the third, <Name>_FOUND, and
# the imported target. A macro, because find_package looks for these variables where the module was run.
include(FindPackageHandleStandardArgs)
macro(flotilla_import name target header prefix)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(${name}_INCLUDE_DIR)
    file(STRINGS "${${name}_INCLUDE_DIR}/${header}" ${name}_VERSION
         REGEX "define ${prefix}_(MAJOR|MINOR|PATCH|PATCHLEVEL|RELEASE)[ \t]")
    string(REGEX MATCHALL "[0-9]+" ${name}_VERSION "${${name}_VERSION}")
    list(JOIN ${name}_VERSION "." ${name}_VERSION)
  endif()
  find_package_handle_standard_args(${name} REQUIRED_VARS ${name}_LIBRARY ${name}_INCLUDE_DIR VERSION_VAR ${name}_VERSION)
  if(${name}_FOUND AND NOT TARGET ${target})
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${name}_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
  endif()
endmacro()

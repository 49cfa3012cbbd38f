# Finds the C++ Actor Framework and defines CAF::core and, as requested,
# CAF::io, CAF::openssl and CAF::test.
#
#   find_package(CAF 0.17.6 REQUIRED COMPONENTS core io)
#
# CAF from 0.18 on ships a CMake package, which is preferred; Debian's 0.17.6
# ships only headers and libraries. CAF_USE_CONFIG_PACKAGE=OFF skips the former.

include(FindPackageHandleStandardArgs)

option(CAF_USE_CONFIG_PACKAGE "Prefer CAF's own CMake package" ON)

if(CAF_USE_CONFIG_PACKAGE)
  # CAF 1.1's package refers to OpenSSL's targets without looking for them.
  find_package(OpenSSL QUIET)
  # CMake forwards our version to a nested call, and CAF's package refuses any
  # other major version, so 1.x would not satisfy a minimum of 0.17.6.
  set(_caf_find_version "${CAF_FIND_VERSION_COMPLETE}")
  unset(CAF_FIND_VERSION_COMPLETE)
  find_package(CAF QUIET CONFIG COMPONENTS ${CAF_FIND_COMPONENTS})
  set(CAF_FIND_VERSION_COMPLETE "${_caf_find_version}")
endif()

if(CAF_CONFIG)
  foreach(_caf_component IN LISTS CAF_FIND_COMPONENTS)
    if(TARGET CAF::${_caf_component})
      set(CAF_${_caf_component}_FOUND TRUE)
    endif()
  endforeach()
  find_package_handle_standard_args(CAF HANDLE_COMPONENTS
                                    REQUIRED_VARS CAF_CONFIG
                                    VERSION_VAR CAF_VERSION)
  return()
endif()

find_path(CAF_INCLUDE_DIR caf/config.hpp)
mark_as_advanced(CAF_INCLUDE_DIR)

if(CAF_INCLUDE_DIR)
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _caf_line
       REGEX "^#define CAF_VERSION [0-9]+")
  if(_caf_line MATCHES "CAF_VERSION ([0-9]+)")
    math(EXPR _caf_major "${CMAKE_MATCH_1} / 10000")
    math(EXPR _caf_minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR _caf_patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION "${_caf_major}.${_caf_minor}.${_caf_patch}")
  endif()
endif()

set(_caf_components core ${CAF_FIND_COMPONENTS})
list(REMOVE_DUPLICATES _caf_components)
foreach(_caf_component IN LISTS _caf_components)
  string(TOUPPER "${_caf_component}" _caf_upper)
  find_library(CAF_${_caf_upper}_LIBRARY caf_${_caf_component})
  mark_as_advanced(CAF_${_caf_upper}_LIBRARY)
  if(CAF_${_caf_upper}_LIBRARY AND CAF_INCLUDE_DIR)
    set(CAF_${_caf_component}_FOUND TRUE)
  endif()
endforeach()

find_package_handle_standard_args(CAF HANDLE_COMPONENTS
                                  REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR
                                  VERSION_VAR CAF_VERSION)

if(CAF_FOUND)
  find_package(Threads REQUIRED)
  foreach(_caf_component IN LISTS _caf_components)
    string(TOUPPER "${_caf_component}" _caf_upper)
    if(CAF_${_caf_component}_FOUND AND NOT TARGET CAF::${_caf_component})
      add_library(CAF::${_caf_component} UNKNOWN IMPORTED)
      set_target_properties(CAF::${_caf_component} PROPERTIES
        IMPORTED_LOCATION "${CAF_${_caf_upper}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
    endif()
  endforeach()
  set_property(TARGET CAF::core APPEND PROPERTY
               INTERFACE_LINK_LIBRARIES Threads::Threads)
  if(TARGET CAF::io)
    set_property(TARGET CAF::io APPEND PROPERTY
                 INTERFACE_LINK_LIBRARIES CAF::core)
  endif()
  if(TARGET CAF::openssl)
    find_package(OpenSSL REQUIRED)
    set_property(TARGET CAF::openssl APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                 CAF::io CAF::core OpenSSL::SSL OpenSSL::Crypto)
  endif()
endif()

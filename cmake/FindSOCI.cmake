# Finds SOCI's headers and libraries where no CMake package is installed (Debian).
# Components: any of postgresql mysql sqlite3 odbc firebird empty.
# Targets: SOCI::core and SOCI::<component>.  Variables: SOCI_FOUND, SOCI_VERSION.
find_path(SOCI_INCLUDE_DIR soci/soci.h)
find_library(SOCI_CORE_LIBRARY soci_core)
if(SOCI_INCLUDE_DIR AND EXISTS "${SOCI_INCLUDE_DIR}/soci/version.h")
  file(STRINGS "${SOCI_INCLUDE_DIR}/soci/version.h" _soci_line
       REGEX "^#define[ \t]+SOCI_LIB_VERSION[ \t]+\"")
  string(REGEX REPLACE ".*\"([0-9]+)_([0-9]+)(_([0-9]+))?\".*" "\\1.\\2.\\4" SOCI_VERSION "${_soci_line}")
  string(REGEX REPLACE "\\.$" "" SOCI_VERSION "${SOCI_VERSION}")
endif()

# What each backend's public header pulls in.
set(_soci_dep_postgresql PostgreSQL)
set(_soci_dep_sqlite3 SQLite3)

foreach(_c IN LISTS SOCI_FIND_COMPONENTS)
  find_library(SOCI_${_c}_LIBRARY soci_${_c})
  set(_soci_ok FALSE)
  if(SOCI_${_c}_LIBRARY AND EXISTS "${SOCI_INCLUDE_DIR}/soci/${_c}/soci-${_c}.h")
    set(_soci_ok TRUE)
  endif()
  if(_c STREQUAL "postgresql" AND _soci_ok)
    find_package(PostgreSQL QUIET)
    if(NOT PostgreSQL_FOUND)
      set(_soci_ok FALSE)
    endif()
  elseif(_c STREQUAL "sqlite3" AND _soci_ok)
    find_package(SQLite3 QUIET)
    if(NOT SQLite3_FOUND)
      set(_soci_ok FALSE)
    endif()
  elseif(_c STREQUAL "mysql" AND _soci_ok)
    find_path(SOCI_MYSQL_INCLUDE_DIR mysql.h PATH_SUFFIXES mariadb mysql)
    find_library(SOCI_MYSQL_CLIENT_LIBRARY NAMES mariadb mysqlclient)
    if(NOT SOCI_MYSQL_INCLUDE_DIR OR NOT SOCI_MYSQL_CLIENT_LIBRARY)
      set(_soci_ok FALSE)
    endif()
  endif()
  set(SOCI_${_c}_FOUND ${_soci_ok})
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SOCI
  REQUIRED_VARS SOCI_CORE_LIBRARY SOCI_INCLUDE_DIR
  VERSION_VAR SOCI_VERSION
  HANDLE_COMPONENTS)

if(SOCI_FOUND AND NOT TARGET SOCI::core)
  add_library(SOCI::core UNKNOWN IMPORTED)
  set_target_properties(SOCI::core PROPERTIES
    IMPORTED_LOCATION "${SOCI_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SOCI_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
foreach(_c IN LISTS SOCI_FIND_COMPONENTS)
  if(SOCI_${_c}_FOUND AND TARGET SOCI::core AND NOT TARGET SOCI::${_c})
    add_library(SOCI::${_c} UNKNOWN IMPORTED)
    set_target_properties(SOCI::${_c} PROPERTIES
      IMPORTED_LOCATION "${SOCI_${_c}_LIBRARY}"
      INTERFACE_LINK_LIBRARIES SOCI::core)
    if(_c STREQUAL "postgresql")
      target_link_libraries(SOCI::${_c} INTERFACE PostgreSQL::PostgreSQL)
    elseif(_c STREQUAL "sqlite3")
      target_link_libraries(SOCI::${_c} INTERFACE SQLite::SQLite3)
    elseif(_c STREQUAL "mysql")
      target_include_directories(SOCI::${_c} INTERFACE "${SOCI_MYSQL_INCLUDE_DIR}")
      target_link_libraries(SOCI::${_c} INTERFACE "${SOCI_MYSQL_CLIENT_LIBRARY}")
    endif()
  endif()
endforeach()
mark_as_advanced(SOCI_INCLUDE_DIR SOCI_CORE_LIBRARY)

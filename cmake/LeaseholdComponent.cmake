# One library per top-level folder.
#
#   leasehold_add_component(actors
#     HEADERS leasehold/messages.hpp ...     # relative to the folder
#     SOURCES leasehold/renewal.cpp ...
#     PUBLIC  leasehold::backends CAF::core
#     PRIVATE ...)
#
# defines the target leasehold_actors, its alias leasehold::actors, a file set
# of public headers whose include path is their namespace path, and installs
# all of it. A generated check compiles each header on its own. Without sources
# it is a library of headers.
function(leasehold_add_component name)
  cmake_parse_arguments(arg "" "" "HEADERS;SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target leasehold_${name})
  set(scope PUBLIC)
  if(arg_SOURCES)
    add_library(${target} ${arg_SOURCES})
    target_link_libraries(${target}
      PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:leasehold_warnings>)
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(leasehold::${name} ALIAS ${target})
  target_sources(${target} ${scope} FILE_SET HEADERS
    BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}"
    FILES ${arg_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${arg_PUBLIC})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERIFY_INTERFACE_HEADER_SETS ON
    INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${target} EXPORT leasehold_targets FILE_SET HEADERS)
endfunction()

# leasehold_add_test(actors SOURCES ... LINK ... LABELS unit)
#
# One executable; CTest gets one entry per Boost.Test suite it contains. WRAPPER
# is a command that runs the executable, for example one that starts a server.
function(leasehold_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS;WRAPPER;SUITES;ENVIRONMENT" ${ARGN})
  set(target ${name}_test)
  add_executable(${target} ${arg_SOURCES}
    "${PROJECT_SOURCE_DIR}/tests/support/main.cpp")
  target_link_libraries(${target} PRIVATE ${arg_LINK}
    Boost::unit_test_framework leasehold_warnings)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  # Suites are found in the sources, so that a new one cannot be forgotten.
  set(suites)
  foreach(source IN LISTS arg_SOURCES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" lines
      REGEX "BOOST_(AUTO|FIXTURE)_TEST_SUITE\\(")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*SUITE\\(([a-z0-9_]+).*" "\\1" suite "${line}")
      list(APPEND suites ${suite})
    endforeach()
  endforeach()
  foreach(suite IN LISTS suites)
    add_test(NAME ${name}.${suite}
      COMMAND ${arg_WRAPPER} $<TARGET_FILE:${target}> --run_test=${suite}
              --log_level=test_suite --report_level=short --color_output=no)
    set_tests_properties(${name}.${suite} PROPERTIES
      LABELS "${arg_LABELS}"
      TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "${arg_ENVIRONMENT}"
      SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

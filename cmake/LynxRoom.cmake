# lynx_room(NAME [SOURCES a.cpp …] [LINKS target …]): the library lynx_NAME of one room (top-level folder); headers alone need no sources.
function(lynx_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  if(NOT ROOM_SOURCES)
    add_library(lynx_${name} INTERFACE)
    target_link_libraries(lynx_${name} INTERFACE lynx_flags ${ROOM_LINKS})
    return()
  endif()
  add_library(lynx_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(lynx_${name} PUBLIC lynx_flags ${ROOM_LINKS})
endfunction()

# lynx_isa_sources(NAME ISA file.cpp …): compiles files with the flags of one ISA path (avx2 | avx512bf16 | amx). Such files hold
# kernels in anonymous namespaces and include no standard-library templates: a template instantiated there could be merged by the
# linker into code that runs on older processors.
function(lynx_isa_sources name isa)
  set(flags_avx2 "-mavx2;-mfma;-mf16c;-mbmi2")
  # GCC 12 takes the undefined operand inside its own AVX-512 intrinsics for a mistake of ours (bug 105593).
  set(flags_avx512bf16 "${flags_avx2};$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vbmi;-mavx512bf16;-mprefer-vector-width=512")
  set(flags_amx "${flags_avx512bf16}")
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${flags_${isa}}")
endfunction()

# lynx_test(NAME SOURCES … LINKS … [LABELS sanitize|threads …]): a Catch2 executable lynx_NAME_tests, registered with ctest as NAME.
# The labels say which sanitizer builds run it (CMakePresets.json); targets tests_sanitize and tests_threads build just those.
function(lynx_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(lynx_${name}_tests ${TEST_SOURCES})
  target_link_libraries(lynx_${name}_tests PRIVATE lynx_flags lynx_test_main ${TEST_LINKS})
  add_test(NAME ${name} COMMAND lynx_${name}_tests WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  foreach(label IN LISTS TEST_LABELS)
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
    add_dependencies(tests_${label} lynx_${name}_tests)
  endforeach()
endfunction()

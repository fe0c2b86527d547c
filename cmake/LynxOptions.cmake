# Build options and the flags that every Lynx target shares.
option(LYNX_TESTS "Build the tests" ON)
option(LYNX_FUZZ "Build libFuzzer targets (clang only)" OFF)
set(LYNX_CUDA "AUTO" CACHE STRING "CUDA layer of device/: AUTO, ON or OFF")
set(LYNX_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: 'address,undefined' or 'thread'")
set_property(CACHE LYNX_CUDA PROPERTY STRINGS AUTO ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LYNX_CCACHE ccache)
if(LYNX_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LYNX_CCACHE}")
endif()

# -ffp-contract=off: the numerics contract (docs/adr) fixes where a fused multiply-add is used; the compiler must not add any.
add_library(lynx_flags INTERFACE)
target_compile_options(lynx_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off>)
# GCC 12 warns wrongly about "literal" + std::string at -O3 (GCC bug 105651).
target_compile_options(lynx_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
target_include_directories(lynx_flags INTERFACE "${PROJECT_SOURCE_DIR}")
if(LYNX_SANITIZE)
  target_compile_options(lynx_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LYNX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(lynx_flags INTERFACE -fsanitize=${LYNX_SANITIZE})
endif()

# fla_flags: what every target of ours compiles with. fla_cuda_flags: what the CUDA files add.
add_library(fla_flags INTERFACE)
target_include_directories(fla_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(fla_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wconversion -Werror>)
if(FLA_SANITIZE)
  target_compile_options(fla_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${FLA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(fla_flags INTERFACE -fsanitize=${FLA_SANITIZE})
endif()

# For rooms that hold no kernel (perf, cli): the headers of CLI11 and nlohmann-json make their files slow to compile,
# and this halves it.
set(FLA_COLD_FLAGS -O1 -g1)

# For files that include <regex>: under GCC's sanitizers libstdc++'s own code draws this warning.
if(FLA_SANITIZE)
  set(FLA_REGEX_FLAGS $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

if(FLA_CUDA)
  # Real code for Hopper and for Blackwell. The Blackwell code is compiled and has never been run.
  # No --use_fast_math: approximate instructions are called by name.
  option(FLA_LINEINFO "Line numbers in the CUDA code, for profilers: two thirds of its size" ON)
  set(FLA_CUDA_ARCHS "90;100;103" CACHE STRING "Architectures that the CUDA kernels are compiled for")
  list(TRANSFORM FLA_CUDA_ARCHS APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # nvcc has C++20; CMake 3.25 does not know it
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
  add_library(fla_cuda_flags INTERFACE)
  target_compile_options(fla_cuda_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${FLA_LINEINFO}>>:-lineinfo>
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills,--warn-on-local-memory-usage>")
endif()

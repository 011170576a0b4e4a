# fla_headers_alone: one generated file a header, each of which includes that header and nothing else, so that a
# header that leans on its includer does not compile. Built by `make lint`.
# Left out: *-inl.h and *.cuh, which by design are read only inside another file.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     include/fla/*.h src/*.h tests/*.h)
list(FILTER headers EXCLUDE REGEX "-inl\\.h$")

set(units "")
foreach(header ${headers})
  string(REGEX REPLACE "^(include|src|tests)/" "" name ${header})
  set(unit ${CMAKE_BINARY_DIR}/headers_alone/${name}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${name}\"  // twice: the guard works\n#include \"${name}\"\n")
  list(APPEND units ${unit})
endforeach()
if("include/fla/fla.h" IN_LIST headers)  # the C header is C99 as well
  set(unit ${CMAKE_BINARY_DIR}/headers_alone/fla_c99.c)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"fla/fla.h\"\ntypedef int not_an_empty_unit;\n")
  list(APPEND units ${unit})
endif()

add_library(fla_headers_alone OBJECT EXCLUDE_FROM_ALL ${units})
target_compile_options(fla_headers_alone PRIVATE -O0 -g0)
target_include_directories(fla_headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/tests)
# cli/build_info.h reads what CMake defines for the binary.
target_compile_definitions(fla_headers_alone PRIVATE $<$<TARGET_EXISTS:fla>:$<TARGET_PROPERTY:fla,COMPILE_DEFINITIONS>>)
target_link_libraries(fla_headers_alone PRIVATE fla_flags hwy::hwy fmt::fmt-header-only CLI11::CLI11
                                                nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX)

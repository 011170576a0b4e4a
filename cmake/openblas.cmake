# OpenBLAS through CBLAS: dense products of the CPU modules, and the ceiling that tables quote. Only the libraries that
# multiply link it. -DFLA_OPENBLAS=OFF leaves it out, and 25 MB.
find_library(FLA_OPENBLAS libopenblas.a
             PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH REQUIRED)
find_path(FLA_OPENBLAS_INCLUDE cblas.h
          PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH REQUIRED)

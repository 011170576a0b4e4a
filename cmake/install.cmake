# `make install PREFIX=dir`: the binary, the shared library with its C header, and a package for find_package(fla).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fla)

install(TARGETS fla_shared EXPORT fla-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/fla/fla.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fla)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

install(EXPORT fla-targets NAMESPACE fla:: DESTINATION ${package_dir})
configure_package_config_file(cmake/fla-config.cmake.in ${CMAKE_BINARY_DIR}/fla-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/fla-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/fla-config.cmake ${CMAKE_BINARY_DIR}/fla-config-version.cmake
        DESTINATION ${package_dir})

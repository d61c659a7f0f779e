# Installation: headers, both libraries, the command line, find_package(lawson) and lawson.pc.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lawson)

install(DIRECTORY include/lawson DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")
install(TARGETS lawson lawson_static EXPORT lawsonTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET lawson_cli)
  install(TARGETS lawson_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT lawsonTargets NAMESPACE lawson:: DESTINATION ${package_dir})
configure_package_config_file(cmake/lawsonConfig.cmake.in lawsonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(lawsonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lawsonConfig.cmake
              ${PROJECT_BINARY_DIR}/lawsonConfigVersion.cmake DESTINATION ${package_dir})

# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/lawson.pc.in lawson.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lawson.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# liblawson from the objects of all modules: shared (target lawson) and static (lawson_static).
set(objects "")
foreach(name IN LISTS LW_MODULES)
  list(APPEND objects $<TARGET_OBJECTS:lw_${name}>)
endforeach()

add_library(lawson SHARED ${objects})
add_library(lawson_static STATIC ${objects})
add_library(lawson::lawson ALIAS lawson)
add_library(lawson::lawson_static ALIAS lawson_static)
set_target_properties(lawson PROPERTIES VERSION ${PROJECT_VERSION} LINKER_LANGUAGE C
                                        SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(lawson_static PROPERTIES OUTPUT_NAME lawson LINKER_LANGUAGE C)
target_link_libraries(lawson PRIVATE ${LW_MODULE_LIBS})
if(NOT LW_SANITIZE)
  target_link_options(lawson PRIVATE -Wl,--no-undefined)
endif()
# By plain name, so that the installed package needs no find modules for them.
target_link_libraries(lawson_static INTERFACE sqlite3 jansson z pthread dl m)
foreach(target lawson lawson_static)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

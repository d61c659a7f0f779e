# lw_module(): one folder of src/ as one static library lw_<name>.
# Keeps LW_MODULES (names of those that exist, lower layers first) and LW_MODULE_LIBS (what they link).
set(LW_MODULES "")
set(LW_MODULE_LIBS "")

function(lw_module name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LIBS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
  if(NOT sources)
    return()
  endif()
  add_library(lw_${name} STATIC ${sources})
  target_include_directories(lw_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(lw_${name} PRIVATE ${LW_WARNINGS} -Wconversion)
  target_link_libraries(lw_${name} PUBLIC ${arg_LIBS})
  set(LW_MODULES ${LW_MODULES} ${name} PARENT_SCOPE)
  set(libs ${LW_MODULE_LIBS} ${arg_LIBS})
  list(REMOVE_DUPLICATES libs)
  set(LW_MODULE_LIBS ${libs} PARENT_SCOPE)
endfunction()

# The libraries of those of the named modules that exist, upper layers first, as a linker needs them.
function(lw_module_targets out_targets)
  set(targets "")
  foreach(name IN LISTS LW_MODULES)
    if(name IN_LIST ARGN)
      list(PREPEND targets lw_${name})
    endif()
  endforeach()
  set(${out_targets} ${targets} PARENT_SCOPE)
endfunction()

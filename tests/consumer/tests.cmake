# Every example runs to its end on the CPU; each checks its own result.
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  add_test(NAME test_example_${name} COMMAND example_${name} cpu)
  lw_set_test_properties(test_example_${name} consumer)
endforeach()

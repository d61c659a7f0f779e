# What the programs of the GPU suite do, without a GPU: on the look-alikes everything but times is judged.
if(NOT LW_SANITIZE STREQUAL "thread")
  add_test(NAME test_gpu_replays_standin
           COMMAND test_gpu_replays $<TARGET_FILE:cuda_standin> $<TARGET_FILE:nvrtc_standin>)
  lw_set_test_properties(test_gpu_replays_standin standin)
endif()

# The shared library as component "python", beside the modules of a wheel (pyproject.toml). With
# LW_PREBUILT nothing is built: that library goes into the wheel.
set(LW_PREBUILT "" CACHE FILEPATH "A liblawson.so to put into the wheel instead of building one")

if(LW_PREBUILT)
  add_custom_target(lawson) # which pyproject.toml asks for
  file(REAL_PATH ${LW_PREBUILT} prebuilt)
  install(FILES ${prebuilt} DESTINATION . RENAME liblawson.so COMPONENT python)
else()
  install(FILES $<TARGET_FILE:lawson> DESTINATION . RENAME liblawson.so COMPONENT python)
endif()

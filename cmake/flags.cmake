# Compile flags of everything in the tree.
set(LW_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")
option(LW_WERROR "Treat warnings as errors" ON)
option(LW_FUZZ "Build tests/fuzz with libFuzzer (clang)" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

# Results must not depend on whether the compiler happens to fuse a product and a sum.
add_compile_options(-ffp-contract=off -fno-omit-frame-pointer)
add_compile_definitions(_GNU_SOURCE)
# Cached plans are good for the very build that made them (src/api/build_id.h).
add_link_options(-Wl,--as-needed -Wl,--build-id=sha1)

set(LW_WARNINGS -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wundef)
# Nearly every function here gives its results through out-parameters and a status that LW_TRY looks
# at. Across calls that it only partly inlines gcc cannot tell that a value is set whenever the status
# is LW_OK. Uses of a variable that is never set (-Wuninitialized) are still reported, and so is what
# clang sees on its own (-Wsometimes-uninitialized).
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND LW_WARNINGS -Wno-maybe-uninitialized)
endif()
if(LW_WERROR)
  list(APPEND LW_WARNINGS -Werror)
endif()

if(LW_SANITIZE)
  add_compile_options(-fsanitize=${LW_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LW_SANITIZE})
endif()
if(LW_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

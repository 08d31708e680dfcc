# Settings that make a build short: many files in one compilation, a compiler cache and a fast linker where they
# are installed. -DCMAKE_UNITY_BUILD=OFF compiles every file alone, for those who edit them.

if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
if(NOT DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
endif()

find_program(DIMRED_CCACHE ccache)
if(DIMRED_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${DIMRED_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${DIMRED_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

foreach(linker mold lld)
  find_program(DIMRED_LINKER_${linker} NAMES ld.${linker})
  if(DIMRED_LINKER_${linker})
    add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=${linker}>)
    break()
  endif()
endforeach()

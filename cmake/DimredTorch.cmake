# LibTorch out of the Python wheel in .venv, one precompiled header for all rooms that see it, and
# nvcc where there is one (the system's, or the PyPI toolkit that scripts/setup.sh installed).

set(DIMRED_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that has torch")
execute_process(COMMAND ${DIMRED_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# cuda/ asks CMAKE_CUDA_COMPILER whether there can be kernels.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  enable_language(CUDA)
endif()

# Torch's own CMake files use FindCUDA and unversioned policies; its warnings are not ours.
set(CMAKE_POLICY_DEFAULT_CMP0146 OLD)
set(CMAKE_WARN_DEPRECATED OFF CACHE BOOL "" FORCE)
# Ampere to Hopper, and PTX for what comes after; torch ignores CMAKE_CUDA_ARCHITECTURES.
if(NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST} AND NOT TORCH_CUDA_ARCH_LIST)
  set(TORCH_CUDA_ARCH_LIST "8.0;9.0+PTX")
endif()
find_package(Torch REQUIRED PATHS ${torch_prefix} NO_DEFAULT_PATH)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

add_library(dimred_torch INTERFACE)
# Not its CUDA libraries, which cuda/ loads where there is a driver.
# at::parallel_for is a template: in a file compiled without OpenMP it runs on one thread. The wheel
# brings a libgomp.so.1, of the system's soname, so that a process has one pool of threads.
target_link_libraries(dimred_torch INTERFACE torch_cpu c10 Threads::Threads OpenMP::OpenMP_CXX)
# libtorch_cpu.so exports parts of std::filesystem of its own, and its remove_all calls through a null
# pointer. With the system's libstdc++ first on the link line our calls bind to that one.
target_link_options(dimred_torch INTERFACE
  LINKER:--push-state,--no-as-needed -lstdc++ LINKER:--pop-state)
target_include_directories(dimred_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# Rooms reuse this target's precompiled tensor headers. Not <torch/torch.h>: every file would then
# instantiate templates of the whole frontend, 9.6 s against 2.5 s for a small one.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_precompiled.cpp CONTENT "")
add_library(dimred_torch_precompiled STATIC ${CMAKE_BINARY_DIR}/torch_precompiled.cpp)
target_link_libraries(dimred_torch_precompiled PUBLIC dimred_torch PRIVATE dimred_flags)
target_precompile_headers(dimred_torch_precompiled PRIVATE
  <torch/types.h> <torch/cuda.h> <torch/utils.h>)

function(dimred_use_torch target)
  target_link_libraries(${target} PUBLIC dimred_torch)
  # The precompiled header is -fPIC; CMake would compile an executable with -fPIE, which does not match.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
  target_precompile_headers(${target} REUSE_FROM dimred_torch_precompiled)
endfunction()

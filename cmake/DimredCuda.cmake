# nvcc where there is one (the system's, or the PyPI toolkit that scripts/setup.sh installed); a room
# then chooses its device's file by CMAKE_CUDA_COMPILER. Before LibTorch is found, because the PCA
# has kernels, too, and knows nothing of torch.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  enable_language(CUDA)
endif()

# Kernels of a torch-free room: Ampere to Hopper, and PTX for what comes after, as DimredTorch asks
# of torch's flags. The runtime is linked statically, so that no program needs CUDA to start; it
# looks for the driver when it is first called. CMake 3.25 knows no C++20 dialect of nvcc 13; the
# kernels need none.
function(dimred_cuda_target target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 17 CUDA_ARCHITECTURES "80-real;90" CUDA_RUNTIME_LIBRARY Static)
endfunction()

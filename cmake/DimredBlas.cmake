# OpenBLAS and LAPACKE as static archives for ONE shared library to hold privately: libtorch exports
# MKL's dgemm_ and dsyevr_, and each would otherwise take the other's calls.

find_path(DIMRED_LAPACKE_INCLUDE lapacke.h REQUIRED)
find_library(DIMRED_LAPACKE_ARCHIVE NAMES liblapacke.a REQUIRED)
find_library(DIMRED_OPENBLAS_ARCHIVE NAMES libopenblas.a PATH_SUFFIXES openblas-pthread REQUIRED)
find_library(DIMRED_GFORTRAN NAMES gfortran libgfortran.so.5 REQUIRED
  PATHS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
find_package(Threads REQUIRED)

# OpenBLAS never starts its threads (pca/dense.cpp). Nothing of the archives is exported, and
# nothing of ours can be interposed.
function(dimred_link_private_blas target exports)
  target_include_directories(${target} SYSTEM PRIVATE ${DIMRED_LAPACKE_INCLUDE})
  target_link_libraries(${target} PRIVATE
    ${DIMRED_LAPACKE_ARCHIVE} ${DIMRED_OPENBLAS_ARCHIVE} ${DIMRED_GFORTRAN} Threads::Threads m)
  target_link_options(${target} PRIVATE -Wl,--wrap=blas_thread_init
    -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs -Wl,--version-script=${exports})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
endfunction()

#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <mutex>

namespace dimred::python {

/// This library and libdimred_pca each hold our lock around HDF5, which is one library.
inline std::mutex hdf5;

/// Throws std::runtime_error for what lies in files, std::invalid_argument for their absence.
template <class Work>
auto with_hdf5(Work work) {
  const nanobind::gil_scoped_release released;
  const std::scoped_lock lock(hdf5);
  return work();
}

/// Makes a fork wait for the call in HDF5 that is under way: nobody in the child would end it.
inline void hold_forks() {
  const auto unlock = [] { hdf5.unlock(); };
  pthread_atfork([] { hdf5.lock(); }, unlock, unlock);
}

}  // namespace dimred::python

#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <future>
#include <mutex>

#include "python/hdf5_guard.h"
#include "support/byte_progress.h"

namespace dimred::python {

inline constexpr auto between_signals = std::chrono::milliseconds(50);

/// Runs `work` in a thread of its own while this one looks for Ctrl-C and says how far it is.
template <class Work, class Stop, class Fraction>
void watched(const Stop& stop,
             const Fraction& fraction,
             const nanobind::object& progress,
             Work work) {
  std::exception_ptr raised;
  {
    const nanobind::gil_scoped_release released;
    auto done = std::async(std::launch::async, work);
    while (!raised && done.wait_for(between_signals) != std::future_status::ready) {
      const nanobind::gil_scoped_acquire held;
      try {
        if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
        if (!progress.is_none()) progress(fraction());
      } catch (const nanobind::python_error&) {
        raised = std::current_exception();
        stop();
      }
    }
    try {
      done.get();
    } catch (const std::exception&) {
      if (!raised) throw;
    }
  }
  if (raised) std::rethrow_exception(raised);
}

/// Runs `work`, which may read through HDF5, in such a thread; Ctrl-C sets progress.stop.
template <class Work>
void watched_reading(ByteProgress& progress, Work work) {
  watched([&] { progress.stop = true; },
          [&] { return progress.fraction(); },
          nanobind::none(),
          [&] {
            const std::scoped_lock lock(hdf5);
            work();
          });
}

}  // namespace dimred::python

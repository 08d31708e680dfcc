#pragma once

#include <nanobind/nanobind.h>

namespace dimred::python {

/// Recording and FrozenDigest, which dimred.SnapshotRecorder is made of.
void bind_recording(nanobind::module_& module);

}  // namespace dimred::python

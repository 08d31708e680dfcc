#pragma once

#include <nanobind/nanobind.h>

namespace dimred::python {

/// diff: two checkpoints, tensor by tensor (checkpoints/verbs/diff.h).
void bind_diff(nanobind::module_& module);

}  // namespace dimred::python

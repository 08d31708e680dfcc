#pragma once

#include <nanobind/nanobind.h>

namespace dimred::python {

/// inspect: what a checkpoint holds (checkpoints/verbs/inspect.h).
void bind_inspect(nanobind::module_& module);

}  // namespace dimred::python

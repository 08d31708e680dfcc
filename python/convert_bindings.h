#pragma once

#include <nanobind/nanobind.h>

namespace dimred::python {

/// convert: a checkpoint as safetensors (checkpoints/verbs/convert.h).
void bind_convert(nanobind::module_& module);

}  // namespace dimred::python

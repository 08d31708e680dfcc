#pragma once

#include <nanobind/nanobind.h>

namespace dimred::python {

/// Method: a preset's algorithm (method/method.h), whose space is an object of Python.
void bind_method(nanobind::module_& module);

}  // namespace dimred::python

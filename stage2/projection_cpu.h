#pragma once

#include <cstdint>
#include <vector>

// The loops behind stage2/projection.h; row-major [k x columns], pointers on the host.
namespace dimred::stage2::cpu {

std::vector<double> project(const float* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector);

void back_project(const float* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2);

}  // namespace dimred::stage2::cpu

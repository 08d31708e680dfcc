#pragma once

#include <cstdint>
#include <vector>

// The loops behind stage2/projection.h; row-major [k x columns], pointers on the host. Value:
// float, or std::uint16_t for the bits of bfloat16.
namespace dimred::stage2::cpu {

template <class Value>
std::vector<double> project(const Value* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector);

template <class Value>
void back_project(const Value* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2);

}  // namespace dimred::stage2::cpu

#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace dimred::models {

/// The precision of the forward and backward pass. Weights, their gradients and everything that
/// sums over samples stay float32 or wider.
enum class Precision { float32, bfloat16, float16 };
std::string name_of(Precision precision);

/// Operators whose type is not left to LibTorch's own lists, by ATen's names ("batch_norm");
/// "linear" is "addmm", too.
/// Source: custom_white_list and custom_black_list of Paddle's AutoMixedPrecisionLists.
struct AmpLists {
  std::vector<std::string> allow;  // take the narrower type
  std::vector<std::string> deny;   // take float32
  bool empty() const { return allow.empty() && deny.empty(); }
};

/// Throws std::invalid_argument for a name that is no operator of ATen's (with the nearest), one
/// that works in place, and one that is in both lists.
void validate(const AmpLists& lists);

/// While it lives, autocast casts what enters the operators of the lists, of this process: have one
/// of them at a time. Each tensor that is an argument is cast, of normalisations with running
/// statistics the input alone.
class AmpCasts {
 public:
  /// Throws as validate() does.
  explicit AmpCasts(const AmpLists& lists);
  ~AmpCasts();
  AmpCasts(const AmpCasts&) = delete;
  AmpCasts& operator=(const AmpCasts&) = delete;

 private:
  struct Registration;
  std::vector<std::unique_ptr<Registration>> registrations_;
};

/// Autocast for one forward pass; the cache of casted weights dies with it.
class AutocastScope {
 public:
  AutocastScope(Precision precision, torch::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool enabled_;
  torch::DeviceType device_;
};

}  // namespace dimred::models

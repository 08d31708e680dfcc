#pragma once

// Which device a fit works on. C++17, because nvcc reads it, too.
namespace dimred::pca {

/// One of a machine's CUDA devices: that of a number, or that of a rank, for which the machine's
/// ranks take the devices in turn.
struct DeviceChoice {
  int number = 0;  // as CUDA counts, from 0; or the rank's among those of its machine
  int ranks = 0;   // of the machine; 0: it is the device's number
};

/// A choice among the devices there are.
struct ChosenDevice {
  int number = 0;  // as CUDA counts
  int ranks = 1;   // that share it, at most
};

/// Of `count` >= 1 devices. Its number is not below count where there is no such device.
constexpr ChosenDevice chosen_among(int count, const DeviceChoice& choice) {
  if (choice.ranks == 0) return {choice.number, 1};
  return {choice.number % count, (choice.ranks + count - 1) / count};
}

}  // namespace dimred::pca

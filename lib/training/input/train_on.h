#pragma once

#include "training/setup.h"

namespace dimred::training {

/// Which samples the loss that is descended on comes from.
enum class TrainOn { train, validation };

/// With `validation`, stage 2 trains on samples that stage 1 has not seen (the held-out objective
/// of TWA-v: Li et al., "Trainable Weight Averaging", arXiv 2205.13104): one half of the validation
/// split becomes the training set, the other half stays the validation set. The split's samples at
/// even places are trained on, those at odd places stay, so that a data set sorted by class leaves
/// the same classes in both; the halves depend on the split alone, i.e. on split_seed, never on the
/// run's seed. Normalisation stays that of the training set the network has seen; an epoch, and
/// what BatchNorm is recalibrated on, become the half. Throws std::invalid_argument unless the
/// validation split has >= 2 samples. With `train` it changes nothing.
void train_on(Setup& setup, TrainOn samples);

}  // namespace dimred::training

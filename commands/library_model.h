#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred model NAME`: a network of timm, torchvision or FastNN as a TorchScript module's file,
/// written by models/library.py in $DIMRED_PYTHON, else python3.
int library_model_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands

#include "models/flat.h"

#include "support/digest.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

layout::Layout layout_of(const std::vector<NamedTensor>& parameters, layout::MemoryFormat format) {
  std::vector<layout::Parameter> table;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensor;
    require(tensor.scalar_type() == torch::kFloat32,
            "[model] needs float32 parameters, received {} of type {}",
            parameter.name,
            tensor.scalar_type());
    const bool sharded = parameter.global_rows > 0;
    table.push_back(
        {.name = parameter.name,
         .shape = tensor.sizes().vec(),
         .memory_format = tensor.dim() == 4 ? format : layout::MemoryFormat::contiguous,
         .placement = sharded ? layout::Placement::sharded : layout::Placement::replicated,
         .decay = tensor.dim() > 1,
         .global_rows = parameter.global_rows,
         .first_row = sharded ? parameter.first_row : 0});
  }
  return layout::make_layout(table);
}

/// The parameter-shaped view of an entry's segment.
torch::Tensor view_of(const layout::Entry& entry, const torch::Tensor& flat) {
  const auto segment = flat.narrow(0, entry.memory_offset, entry.size);
  if (entry.memory_format == layout::MemoryFormat::contiguous) return segment.view(entry.shape);
  const auto& s = entry.shape;
  return segment.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

/// One vector behind all buffers of one kind, which become views into it.
torch::Tensor gather_buffers(const std::vector<NamedTensor>& buffers,
                             bool floating,
                             torch::Device device) {
  std::vector<torch::Tensor> parts;
  for (const auto& buffer : buffers) {
    if (buffer.tensor.is_floating_point() == floating) parts.push_back(buffer.tensor.flatten());
  }
  const auto dtype = floating ? torch::kFloat32 : torch::kInt64;
  if (parts.empty()) return torch::empty({0}, torch::device(device).dtype(dtype));
  auto flat = torch::cat(parts).to(device, dtype);
  std::int64_t offset = 0;
  for (const auto& buffer : buffers) {
    auto target = buffer.tensor;  // a handle on the module's own
    if (target.is_floating_point() != floating) continue;
    target.set_data(flat.narrow(0, offset, target.numel()).view(target.sizes()));
    offset += target.numel();
  }
  return flat;
}

/// The tensors become views of their segments.
void move_into(torch::Tensor& flat,
               const layout::Layout& layout,
               std::vector<NamedTensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto view = view_of(layout.entries[i], flat);
    view.copy_(tensors[i].tensor);
    tensors[i].tensor.set_data(view);
  }
}

template <class T>
std::vector<T> host_copy(const torch::Tensor& values) {
  const auto host = values.detach().cpu().contiguous();
  return {host.const_data_ptr<T>(), host.const_data_ptr<T>() + host.numel()};
}

template <class T>
void assign_values(torch::Tensor& target, std::span<const T> values) {
  const torch::NoGradGuard no_grad;
  require(std::ssize(values) == target.numel(),
          "[model] needs {} values, received {}",
          target.numel(),
          values.size());
  // from_blob wants a mutable pointer; the tensor is only read.
  target.copy_(torch::from_blob(const_cast<T*>(values.data()),
                                {target.numel()},
                                c10::CppTypeToScalarType<T>::value));  // NOLINT
}

}  // namespace

FlatVectors flatten(Objective& objective, layout::MemoryFormat format, torch::Device device) {
  const torch::NoGradGuard no_grad;
  auto parameters = objective.parameters();
  FlatVectors flat;
  flat.layout = layout_of(parameters, format);
  const auto options = torch::device(device).dtype(torch::kFloat32);
  flat.weights = torch::zeros({flat.layout.memory_size}, options);
  flat.gradient = torch::zeros({flat.layout.memory_size}, options);
  move_into(flat.weights, flat.layout, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].tensor.mutable_grad() = view_of(flat.layout.entries[i], flat.gradient);
  auto frozen = objective.frozen();
  if (!frozen.empty()) flat.frozen_layout = layout_of(frozen, format);
  flat.frozen = torch::zeros({flat.frozen_layout.memory_size}, options);
  move_into(flat.frozen, flat.frozen_layout, frozen);
  const auto buffers = objective.buffers();
  flat.buffers = gather_buffers(buffers, true, device);
  flat.counters = gather_buffers(buffers, false, device);
  return flat;
}

std::vector<float> to_file(const layout::Layout& layout, const torch::Tensor& memory) {
  const auto host = memory.detach().cpu().contiguous();
  std::vector<float> file(layout.file_size);
  layout::memory_to_file(
      layout, {host.const_data_ptr<float>(), host.nbytes() / sizeof(float)}, file);
  return file;
}

void from_file(const layout::Layout& layout, std::span<const float> file, torch::Tensor& memory) {
  require(std::ssize(file) == layout.file_size,
          "[model] needs {} weights, received {}",
          layout.file_size,
          file.size());
  std::vector<float> host(layout.memory_size);
  layout::file_to_memory(layout, file, host);
  assign(memory, host);
}

std::vector<float> to_vector(const torch::Tensor& values) { return host_copy<float>(values); }

std::vector<std::int64_t> to_integers(const torch::Tensor& values) {
  return host_copy<std::int64_t>(values);
}

std::string digest_of(const torch::Tensor& values) {
  const auto host = values.detach().cpu();
  return digest({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
}

void assign(torch::Tensor& target, std::span<const float> values) { assign_values(target, values); }

void assign(torch::Tensor& target, std::span<const std::int64_t> values) {
  assign_values(target, values);
}

void assign(FlatVectors& flat,
            std::span<const float> weights,
            std::span<const float> buffers,
            std::span<const std::int64_t> counters) {
  from_file(flat.layout, weights, flat.weights);
  assign(flat.buffers, buffers);
  assign(flat.counters, counters);
}

}  // namespace dimred::models

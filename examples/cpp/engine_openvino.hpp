// Graphs of a bundle in OpenVINO, float32 on one thread of the CPU.
#pragma once

#include <openvino/openvino.hpp>

#include "dcaplda.hpp"

namespace dcaplda {

class OpenvinoGraph : public Graph {
 public:
  explicit OpenvinoGraph(const std::string& path) {
    static ov::Core core;
    auto model = core.compile_model(path, "CPU", ov::hint::inference_precision(ov::element::f32),
                                    ov::inference_num_threads(1));
    for (const auto& port : model.inputs()) names_.push_back(port.get_any_name());
    request_ = model.create_infer_request();
  }

  bool takes(const std::string& input) const override {
    for (const auto& name : names_) {
      if (name == input) return true;
    }
    return false;
  }

  std::vector<float> run(const std::map<std::string, Tensor>& inputs) override {
    for (const auto& [name, tensor] : inputs) {
      ov::Shape shape(tensor.shape.begin(), tensor.shape.end());
      request_.set_tensor(name, ov::Tensor(ov::element::f32, shape, const_cast<float*>(tensor.values.data())));
    }
    request_.infer();
    const auto output = request_.get_output_tensor(0);
    const float* values = output.data<const float>();
    return {values, values + output.get_size()};
  }

 private:
  std::vector<std::string> names_;
  ov::InferRequest request_;
};

inline std::unique_ptr<Graph> open_graph(const std::string& path) {
  return std::make_unique<OpenvinoGraph>(path);
}

}  // namespace dcaplda

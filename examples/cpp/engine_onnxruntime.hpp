// Graphs of a bundle in onnxruntime, on the caller's thread.
#pragma once

#include <onnxruntime_cxx_api.h>

#include "dcaplda.hpp"

namespace dcaplda {

class OnnxruntimeGraph : public Graph {
 public:
  explicit OnnxruntimeGraph(const std::string& path) : session_(environment(), path.c_str(), options()) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetInputCount(); ++i) {
      names_.push_back(session_.GetInputNameAllocated(i, allocator).get());
    }
    output_ = session_.GetOutputNameAllocated(0, allocator).get();
  }

  bool takes(const std::string& input) const override {
    for (const auto& name : names_) {
      if (name == input) return true;
    }
    return false;
  }

  std::vector<float> run(const std::map<std::string, Tensor>& inputs) override {
    auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    std::vector<const char*> names;
    std::vector<Ort::Value> values;
    for (const auto& [name, tensor] : inputs) {
      names.push_back(name.c_str());
      values.push_back(Ort::Value::CreateTensor<float>(memory, const_cast<float*>(tensor.values.data()),
                                                       tensor.values.size(), tensor.shape.data(), tensor.shape.size()));
    }
    const char* output = output_.c_str();
    auto made = session_.Run(Ort::RunOptions{nullptr}, names.data(), values.data(), values.size(), &output, 1);
    const float* first = made[0].GetTensorData<float>();
    return {first, first + made[0].GetTensorTypeAndShapeInfo().GetElementCount()};
  }

 private:
  Ort::Session session_;
  std::vector<std::string> names_;
  std::string output_;

  static Ort::Env& environment() {
    static Ort::Env made(ORT_LOGGING_LEVEL_ERROR, "dcaplda");
    return made;
  }
  static Ort::SessionOptions options() {
    Ort::SessionOptions made;
    made.SetIntraOpNumThreads(1);
    return made;
  }
};

inline std::unique_ptr<Graph> open_graph(const std::string& path) {
  return std::make_unique<OnnxruntimeGraph>(path);
}

}  // namespace dcaplda

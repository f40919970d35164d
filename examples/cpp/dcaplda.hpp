// A dcaplda bundle from C++: load, enrol, verify, decide, warn.
//
//   #include "engine_onnxruntime.hpp"     // or engine_openvino.hpp
//   dcaplda::Backend backend("exp/bundle", dcaplda::open_graph);
//   auto ann = backend.enroll({first, second}, {31.0f, 12.5f});
//   auto answer = backend.verify(ann, third, 9.0f, 0.01);
//   if (answer.accept) ...
//
// The arithmetic is in the graphs; here are the checks, the decision and the warnings. Whoever
// ships a bundle checks its files first: sha256sum --strict -c SHA256SUMS.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.hpp"

namespace dcaplda {

constexpr int format_version = 3;  // and those before, which have the graphs that are used here

struct Tensor {
  std::vector<float> values;
  std::vector<int64_t> shape;
};

// What an ONNX runtime has to offer: the first output of a graph, and which inputs it takes.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual bool takes(const std::string& input) const = 0;
  virtual std::vector<float> run(const std::map<std::string, Tensor>& inputs) = 0;
};
using Open = std::function<std::unique_ptr<Graph>(const std::string& path)>;

struct Speaker {
  std::vector<std::vector<float>> voiceprints;
  std::vector<std::string> warnings;
};

struct Answer {
  double llr;        // natural logarithm: the same speaker against different ones
  double posterior;  // of the same speaker, given the prior
  double threshold;
  bool accept;
  std::vector<std::string> warnings;  // where either side is unlike what training saw
};

// The LLR from which on accepting costs less than rejecting.
inline double threshold(double prior, double cost_miss = 1.0, double cost_fa = 1.0) {
  if (!(prior > 0.0 && prior < 1.0)) throw std::invalid_argument("prior: expected 0 to 1");
  if (!(cost_miss > 0.0 && cost_fa > 0.0)) throw std::invalid_argument("costs: expected above 0");
  return std::log(cost_fa / cost_miss) - std::log(prior / (1.0 - prior));
}

// Use it from one thread, or one per thread.
class Backend {
 public:
  Backend(const std::string& directory, const Open& open) {
    std::ifstream file(directory + "/model.json");
    std::stringstream text;
    text << file.rdbuf();
    if (!file) throw std::runtime_error(directory + ": has no model.json");
    info_ = Json::parse(text.str());
    if (info_["format"].words != "dcaplda-bundle") {
      throw std::runtime_error(directory + ": not a dcaplda bundle");
    }
    if (!(info_["format_version"].value <= format_version)) {
      throw std::runtime_error(directory + ": of a newer version than this example");
    }
    dim_ = static_cast<size_t>(info_["embedding_dim"].value);
    width_ = static_cast<size_t>(info_["voiceprint_dim"].value);
    timed_ = info_["uses_durations"].flag;
    auto path = [&](const char* name) { return directory + "/" + info_["graphs"][name]["file"].words; };
    voiceprint_ = open(path("voiceprint"));
    pairs_ = open(path("pairs"));
  }

  size_t embedding_dim() const { return dim_; }

  // One utterance or several; LLRs against several are averaged.
  Speaker enroll(const std::vector<std::vector<float>>& embeddings, const std::vector<float>& seconds) {
    if (embeddings.empty()) throw std::invalid_argument("enroll: no embedding");
    if (embeddings.size() > 1 && info_["joint"]) {
      throw std::invalid_argument("enroll: a joint model takes several utterances together; enrol in Python");
    }
    if (timed_ && seconds.size() != embeddings.size()) {
      throw std::invalid_argument("enroll: seconds of speech are needed for each embedding");
    }
    Speaker made;
    for (size_t i = 0; i < embeddings.size(); ++i) {
      float time = i < seconds.size() ? seconds[i] : 1.0f;
      made.voiceprints.push_back(voiceprint(embeddings[i], time));
      auto found = warnings(embeddings[i], time, made.voiceprints.back(), "enrolment");
      made.warnings.insert(made.warnings.end(), found.begin(), found.end());
    }
    return made;
  }

  Answer verify(const Speaker& speaker, const std::vector<float>& embedding, float seconds,
                double prior, double cost_miss = 1.0, double cost_fa = 1.0) {
    Answer answer{};
    answer.threshold = threshold(prior, cost_miss, cost_fa);
    auto test = voiceprint(embedding, seconds);
    for (const auto& enrolled : speaker.voiceprints) {
      answer.llr += compare(enrolled, test) / static_cast<double>(speaker.voiceprints.size());
    }
    if (!std::isfinite(answer.llr)) throw std::runtime_error("no finite LLR");
    answer.posterior = 1.0 / (1.0 + std::exp(-(answer.llr + std::log(prior / (1.0 - prior)))));
    answer.accept = answer.llr >= answer.threshold;
    answer.warnings = speaker.warnings;
    auto found = warnings(embedding, seconds, test, "test");
    answer.warnings.insert(answer.warnings.end(), found.begin(), found.end());
    return answer;
  }

 private:
  Json info_;
  size_t dim_ = 0, width_ = 0;
  bool timed_ = false;
  std::unique_ptr<Graph> voiceprint_, pairs_;

  std::vector<float> voiceprint(const std::vector<float>& embedding, float seconds) {
    if (embedding.size() != dim_) {
      throw std::invalid_argument("embedding: " + std::to_string(embedding.size()) + " values, the model takes " +
                                  std::to_string(dim_));
    }
    bool zero = true;
    for (float value : embedding) {
      if (!std::isfinite(value)) throw std::invalid_argument("embedding: a value is not finite");
      zero = zero && value == 0.0f;
    }
    if (zero) throw std::invalid_argument("embedding: all values are zero");
    if (timed_ && !(seconds > 0.0f && std::isfinite(seconds))) {
      throw std::invalid_argument("seconds of speech: expected a number above 0");
    }
    std::map<std::string, Tensor> inputs;
    inputs["embeddings"] = {embedding, {1, static_cast<int64_t>(dim_)}};
    inputs["durations"] = {{timed_ ? seconds : 1.0f}, {1}};
    for (const Json& name : info_["voiceprint_inputs"].items) inputs[name.words] = {{1.0f}, {1}};
    auto made = run(*voiceprint_, inputs, width_);
    for (float value : made) {
      if (!std::isfinite(value)) throw std::runtime_error("embedding: gives no finite voiceprint");
    }
    return made;
  }

  double compare(const std::vector<float>& enroll, const std::vector<float>& test) {
    if (enroll.size() != width_) throw std::invalid_argument("speaker: voiceprints of another model");
    auto width = static_cast<int64_t>(width_);
    return run(*pairs_, {{"enroll", {enroll, {1, width}}}, {"test", {test, {1, width}}}}, 1)[0];
  }

  // Runtimes leave out inputs that a graph does not look at, and refuse to be given them.
  static std::vector<float> run(Graph& graph, std::map<std::string, Tensor> inputs, size_t size) {
    for (auto it = inputs.begin(); it != inputs.end();) {
      it = graph.takes(it->first) ? std::next(it) : inputs.erase(it);
    }
    auto made = graph.run(inputs);
    if (made.size() != size) throw std::runtime_error("a graph gave an output of a wrong size");
    return made;
  }

  static std::string said(const char* form, double a, double b) {
    char text[160];
    std::snprintf(text, sizeof text, form, a, b);
    return text;
  }

  // Where an utterance is unlike what training saw, as far as model.json tells.
  std::vector<std::string> warnings(const std::vector<float>& embedding, float seconds,
                                    const std::vector<float>& print, const std::string& side) const {
    std::vector<std::string> found;
    const Json& known = info_["familiarity"];
    const Json& times = known["seconds"];
    if (times && timed_ && (seconds < times["min"].value || seconds > times["max"].value)) {
      found.push_back(side + said(": duration %.1f s, trained on ", seconds, 0) +
                      said("%.1f-%.1f s", times["min"].value, times["max"].value));
    }
    double length = 0.0;
    for (float value : embedding) length += static_cast<double>(value) * value;
    length = std::sqrt(length);
    const Json& norm = known["norm"];
    if (norm && (length < norm["min"].value || length > norm["max"].value)) {
      found.push_back(side + said(": embedding of length %.2f, in training 99.9%% had ", length, 0) +
                      said("%.2f-%.2f", norm["min"].value, norm["max"].value));
    }
    const Json& own = known["side_information"];
    if (own) {
      double distance = mahalanobis(own, print), limit = own["distance_p999"].value;
      if (!(distance <= limit)) {
        found.push_back(side + said(": side-information at distance %.1f, in training 99.9%% were "
                                    "within %.1f", distance, limit));
      }
    }
    return found;
  }

  static double mahalanobis(const Json& own, const std::vector<float>& print) {
    auto mean = own["mean"].numbers();
    auto first = static_cast<size_t>(own["columns"].numbers().at(0));
    double total = 0.0;
    for (size_t i = 0; i < mean.size(); ++i) {
      auto row = own["precision"].items.at(i).numbers();
      for (size_t j = 0; j < mean.size(); ++j) {
        total += (print.at(first + i) - mean[i]) * row.at(j) * (print.at(first + j) - mean[j]);
      }
    }
    return std::sqrt(total > 0.0 ? total : 0.0);
  }
};

}  // namespace dcaplda

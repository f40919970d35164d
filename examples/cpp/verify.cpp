// verify <bundle-dir> <enroll.txt> <test.txt> [prior [cost-miss [cost-fa]]]
//
// A text file has a line for each utterance: seconds of speech, then the numbers of its embedding.
// Enrols all of the first file, verifies each of the second; prints a line of JSON for each.

#include <iostream>

#ifdef DCAPLDA_OPENVINO
#include "engine_openvino.hpp"
#else
#include "engine_onnxruntime.hpp"
#endif

struct Utterances {
  std::vector<float> seconds;
  std::vector<std::vector<float>> embeddings;
};

static Utterances read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Utterances found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<float> numbers;
    for (std::string word; words >> word;) {
      size_t used = 0;
      float number = std::stof(word, &used);  // "nan" is read, and refused where it is used
      if (used != word.size()) throw std::runtime_error(path + ": '" + word + "' is no number");
      numbers.push_back(number);
    }
    if (numbers.empty()) continue;
    found.seconds.push_back(numbers.front());
    found.embeddings.emplace_back(numbers.begin() + 1, numbers.end());
  }
  return found;
}

int main(int count, char** words) {
  try {
    if (count < 4) throw std::invalid_argument("usage: verify <bundle> <enroll.txt> <test.txt> [prior ...]");
    auto given = [&](int place, double usual) { return count > place ? std::stod(words[place]) : usual; };
    dcaplda::Backend backend(words[1], dcaplda::open_graph);
    Utterances enrolled = read(words[2]), tests = read(words[3]);
    auto speaker = backend.enroll(enrolled.embeddings, enrolled.seconds);
    std::cout.precision(9);
    for (size_t i = 0; i < tests.embeddings.size(); ++i) {
      auto answer = backend.verify(speaker, tests.embeddings[i], tests.seconds[i], given(4, 0.01),
                                   given(5, 1.0), given(6, 1.0));
      std::cout << "{\"llr\": " << answer.llr << ", \"posterior\": " << answer.posterior
                << ", \"threshold\": " << answer.threshold
                << ", \"accept\": " << (answer.accept ? "true" : "false") << ", \"warnings\": [";
      for (size_t k = 0; k < answer.warnings.size(); ++k) {
        std::cout << (k ? ", \"" : "\"") << answer.warnings[k] << "\"";
      }
      std::cout << "]}\n";
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "verify: ERROR: " << error.what() << "\n";
    return 1;
  }
}

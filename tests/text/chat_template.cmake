# Chat templates. jinja2 itself is the oracle: compare_templates.py renders real templates with it, make_chat_goldens.py snippets.
lynx_test(text_chat
  SOURCES
    chat_golden_test.cpp
    chat_limits_test.cpp
    chat_mutation_test.cpp
    chat_template_test.cpp
  LINKS lynx_text
  LABELS sanitize)

add_executable(lynx_render_template render_template_tool.cpp)
target_link_libraries(lynx_render_template PRIVATE lynx_text)
add_test(NAME text_chat_oracle
  COMMAND sh -c "exec \"\${LYNX_TEST_PYTHON:-.venv/bin/python}\" tests/text/compare_templates.py --tool \"$0\" --templates .cache/templates --model \"\${LYNX_TEST_MODEL:-.models/SmolLM2-135M-Instruct.Q4_1.gguf}\""
    $<TARGET_FILE:lynx_render_template>
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")

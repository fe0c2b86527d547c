# Chat templates. jinja2 itself is the oracle: see compare_templates.py and make_chat_goldens.py.
add_executable(lynx_render_template render_template_tool.cpp)
target_link_libraries(lynx_render_template PRIVATE lynx_text)

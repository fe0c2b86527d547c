#!/usr/bin/env python3
"""Writes jinja_case_tables.h: the code points that this Python's str.upper(), lower() and title() turn into several.

python3 text/make_case_tables.py > text/jinja_case_tables.h
"""
import unicodedata


def print_table(name, convert):
    print(f"inline constexpr CaseExpansion {name}[] = {{")
    rows = []
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000 and len(convert(chr(c))) > 1:
            utf8 = "".join(f"\\x{byte:02X}" for byte in convert(chr(c)).encode())
            rows.append(f'{{0x{c:X}, "{utf8}"}}')
    for at in range(0, len(rows), 3):
        print("    " + " ".join(row + "," for row in rows[at : at + 3]))
    print("};\n")


print("#pragma once\n")
print(f"// Case mappings to several code points, Unicode {unicodedata.unidata_version}; written by make_case_tables.py.\n")
print("// clang-format off\n")
print("namespace lynx::text::jinja {\n")
print("struct CaseExpansion {\n  char32_t from;\n  const char* to;\n};\n")
print_table("kUpperExpansions", str.upper)
print_table("kLowerExpansions", str.lower)
print_table("kTitleExpansions", str.title)
print("}  // namespace lynx::text::jinja")

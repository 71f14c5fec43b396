import type { ComposeFileReader } from "./load-project.ts";

/**
 * The maximum number of bytes that one import reads. Without it, files that refer to each other many times could
 * make an import endless.
 */
const CHARACTERS_MAX = 64 * 1_048_576;

/** Returns a reader that refuses further files after it has read 64 MiB, so that every import ends soon. */
export function limitReading(files: ComposeFileReader): ComposeFileReader {
  let characters = 0;
  return {
    ...files,
    read: (path) => {
      if (characters > CHARACTERS_MAX) return { problem: "the import has read 64 MiB already" };
      const content = files.read(path);
      if ("text" in content) characters += content.text.length;
      return content;
    },
  };
}

/** What a recipe sees of a source. Paths are relative to it, with `/`; `""` is the source itself. */
export interface SourceReader {
  has(path: string): boolean;
  /** Names in a folder; none where there is no such folder. */
  list(folder: string): readonly string[];
  /** The text of a file; undefined where there is none. */
  read(path: string): Promise<string | undefined>;
}

/**
 * The files of a source, as recipes read them. Paths are relative to the source, with `/` as separator; `""` is the
 * source itself.
 */
export interface SourceReader {
  has(path: string): boolean;
  /** Lists the names in a folder. Returns an empty list if the folder does not exist. */
  list(folder: string): readonly string[];
  /** Reads the text of a file; undefined if it does not exist. */
  read(path: string): Promise<string | undefined>;
}

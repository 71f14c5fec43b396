/** The kind of a file, which determines how its text is extracted. `skipped` files are not read. */
export type FileKind = "plain" | "markdown" | "html" | "code" | "skipped";

const skippedExtensions = parseWordSet(`
  pdf doc docx xls xlsx ppt pptx odt ods odp odg epub mobi rtf djvu ps eps
  png jpg jpeg gif webp avif bmp ico tif tiff svg heic psd xcf
  mp3 ogg opus flac wav m4a mp4 mkv webm avi mov
  zip gz tgz bz2 xz zst 7z rar tar jar war deb rpm iso img qcow2 vmdk
  so o a ko dll exe bin class pyc pyo wasm node dylib
  db sqlite sqlite3 db3 db-wal db-shm mdb parquet npy npz gguf safetensors onnx pt pkl
  ttf otf woff woff2 eot map lock swp swo bak tmp part crdownload
`);
const codeExtensions = parseWordSet(`
  c h cc cpp cxx hpp hh cs java kt kts scala go rs swift m mm js mjs cjs jsx ts mts cts tsx vue svelte
  py pyi rb pl pm php lua r jl hs ml mli ex exs erl clj el lisp scm sh bash zsh fish ps1 bat
  sql proto graphql tf nix cmake gradle make mk dockerfile css scss less
  json jsonc json5 yaml yml toml ini cfg conf service timer socket desktop xml xsd
`);
const markdownExtensions = parseWordSet("md markdown mdx mdown");
const htmlExtensions = parseWordSet("html htm xhtml");
/** Names of source files without an extension. */
const codeNames = new Set(["makefile", "dockerfile", "containerfile", "caddyfile", "justfile"]);
/** Matches names of generated files, which contain no text written by people. */
const generated = /(?:^package-lock\.json|\.min\.(?:js|css)|-lock\.ya?ml)$/;

/** Classifies a file by its name only, without reading it. */
export function classifyFile(name: string): FileKind {
  const lower = name.toLowerCase();
  if (generated.test(lower)) return "skipped";
  if (codeNames.has(lower)) return "code";
  const extension = /\.([^.]+)$/.exec(lower)?.[1];
  if (extension === undefined) return "plain";
  if (skippedExtensions.has(extension)) return "skipped";
  if (markdownExtensions.has(extension)) return "markdown";
  if (htmlExtensions.has(extension)) return "html";
  return codeExtensions.has(extension) ? "code" : "plain";
}

function parseWordSet(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

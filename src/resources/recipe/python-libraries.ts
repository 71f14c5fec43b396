import type { PythonProject } from "./python-project.ts";

/** Packages of Python, and the packages of Debian that they load or call at run time. */
const libraries: readonly (readonly [names: readonly string[], debian: string])[] = [
  [["mysqlclient"], "libmariadb3"],
  [["pydub", "moviepy", "ffmpeg-python", "openai-whisper"], "ffmpeg"],
  [["pdf2image"], "poppler-utils"],
  [["pycairo", "cairosvg", "cairocffi"], "libcairo2"],
  [["weasyprint"], "libpango-1.0-0 libpangoft2-1.0-0"],
  [["opencv-python", "opencv-contrib-python"], "libgl1 libglib2.0-0"],
  [["pytesseract"], "tesseract-ocr"],
  [["python-magic"], "libmagic1"],
  [["pyodbc"], "unixodbc"],
];

/** Finds the packages of Debian that the final image needs, in addition to those of the image without compilers. */
export function findPythonLibraries(project: PythonProject): readonly string[] {
  const found = libraries
    .filter(([names]) => names.some((name) => project.packages.has(name)))
    .map(([, debian]) => debian);
  // psycopg with the extra `binary` brings its own library, and psycopg2-binary is a package of its own.
  const needsPostgres =
    project.packages.has("psycopg2") ||
    project.written.some((line) => /^\s*psycopg(?!\[[^\]]*binary)(\[|[\s=<>~!;,]|$)/.test(line));
  return needsPostgres ? ["libpq5", ...found] : found;
}

// Command go-app is an app with tools for the assistant, written with the official Go SDK of MCP.
//
// Start it in a session, or let the assistant start it as the systemd unit org.example.Bookmarks.service:
//
//	cp org.example.Bookmarks.json ~/.local/share/assistant/manifests/
//	go run .
//
// docs/tool-manifests.md explains the socket, the manifest and the results.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const appID = "org.example.Bookmarks"

type bookmark struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

// The SDK makes the schema of a tool's arguments from such a type, and adds the text as a description.
type addArguments struct {
	URL   string `json:"url" jsonschema:"address of the page"`
	Title string `json:"title" jsonschema:"title of the page"`
}

type removeArguments struct {
	ID string `json:"id" jsonschema:"id of the bookmark"`
}

type bookmarkList struct {
	Bookmarks []bookmark `json:"bookmarks"`
}

// store keeps the bookmarks in one file. Each change replaces the whole file.
type store struct {
	mutex sync.Mutex
	path  string
}

func (s *store) load() ([]bookmark, error) {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return []bookmark{}, nil
	}
	if err != nil {
		return nil, err
	}
	var bookmarks []bookmark
	err = json.Unmarshal(text, &bookmarks)
	return bookmarks, err
}

func (s *store) save(bookmarks []bookmark) error {
	text, err := json.Marshal(bookmarks)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}

// The second value that a handler returns becomes the structuredContent of the result. The manifest's `$result.id`
// refers to a field of it.

func (s *store) add(_ context.Context, _ *mcp.CallToolRequest, args addArguments) (*mcp.CallToolResult, bookmark, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	bookmarks, err := s.load()
	if err != nil {
		return nil, bookmark{}, err
	}
	added := bookmark{ID: rand.Text(), URL: args.URL, Title: args.Title}
	return nil, added, s.save(append(bookmarks, added))
}

func (s *store) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, bookmarkList, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	bookmarks, err := s.load()
	return nil, bookmarkList{bookmarks}, err
}

func (s *store) remove(_ context.Context, _ *mcp.CallToolRequest, args removeArguments) (*mcp.CallToolResult, bookmark, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	bookmarks, err := s.load()
	if err != nil {
		return nil, bookmark{}, err
	}
	index := slices.IndexFunc(bookmarks, func(one bookmark) bool { return one.ID == args.ID })
	if index < 0 {
		return nil, bookmark{}, fmt.Errorf("there is no bookmark %s", args.ID)
	}
	removed := bookmarks[index]
	return nil, removed, s.save(slices.Delete(bookmarks, index, index+1))
}

// listen creates the app's socket. It fails if another instance of the app listens on the socket.
func listen() (net.Listener, error) {
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	if runtimeDir == "" {
		return nil, errors.New("XDG_RUNTIME_DIR is not set: start this in a session")
	}
	folder := filepath.Join(runtimeDir, "assistant", "apps")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, appID+".sock")
	if connection, err := net.Dial("unix", path); err == nil {
		connection.Close()
		return nil, errors.New(appID + " is running already")
	}
	// A crash may have left the socket file.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// serve serves MCP on one connection, with the same framing as on standard input and output: one message per line.
func serve(ctx context.Context, server *mcp.Server, connection net.Conn) {
	session, err := server.Connect(ctx, &mcp.IOTransport{Reader: connection, Writer: connection}, nil)
	if err != nil {
		connection.Close()
		return
	}
	session.Wait()
}

func dataHome() string {
	if folder := os.Getenv("XDG_DATA_HOME"); folder != "" {
		return folder
	}
	return filepath.Join(os.Getenv("HOME"), ".local/share")
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bookmarks := &store{path: filepath.Join(dataHome(), appID, "bookmarks.json")}
	server := mcp.NewServer(&mcp.Implementation{Name: appID, Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add_bookmark", Description: "Adds a bookmark."}, bookmarks.add)
	mcp.AddTool(server, &mcp.Tool{Name: "list_bookmarks", Description: "Lists all bookmarks."}, bookmarks.list)
	mcp.AddTool(server, &mcp.Tool{Name: "remove_bookmark", Description: "Removes a bookmark."}, bookmarks.remove)

	listener, err := listen()
	if err != nil {
		log.Fatalf("error: %v", err)
	}
	// Closing the listener removes the socket.
	context.AfterFunc(ctx, func() { listener.Close() })
	log.Printf("%s listens", appID)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(ctx, server, connection)
	}
}

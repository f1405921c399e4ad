package main

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// changesOfGo returns the changes of a Go file. Some do not compile: for example a variable is no longer used.
func changesOfGo(file string, text []byte) ([]change, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	var changes []change
	replace := func(from, to token.Pos, by string) {
		changes = append(changes, change{offset(from), offset(to), by})
	}
	loops := make(map[ast.Node]bool) // the conditions of loops: without them, tests hang
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			loops[n.Cond] = true
		case *ast.BinaryExpr:
			switch opposite := negated[n.Op.String()]; {
			case loops[n]:
			case n.Op == token.LAND || n.Op == token.LOR:
				replace(n.X.Pos(), n.Y.Pos(), "")
				replace(n.X.End(), n.Y.End(), "")
			case opposite != "":
				replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), opposite)
			}
		case *ast.IfStmt:
			if _, ok := n.Cond.(*ast.BinaryExpr); !ok {
				replace(n.Cond.Pos(), n.Cond.End(), "!("+string(text[offset(n.Cond.Pos()):offset(n.Cond.End())])+")")
			}
		case *ast.BlockStmt:
			remove(n.List, replace)
		case *ast.CaseClause:
			remove(n.Body, replace)
		case *ast.CommClause:
			remove(n.Body, replace)
		}
		return true
	})
	return changes, nil
}

// remove removes calls, assignments and jumps of a list.
func remove(list []ast.Stmt, replace func(from, to token.Pos, by string)) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt, *ast.SendStmt:
		case *ast.ReturnStmt:
			if len(s.Results) > 0 && len(list) == 1 {
				continue // a function that only returns
			}
		default:
			continue
		}
		replace(s.Pos(), s.End(), "")
	}
}

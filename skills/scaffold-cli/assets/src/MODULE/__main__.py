from MODULE.cli import main

raise SystemExit(main())
